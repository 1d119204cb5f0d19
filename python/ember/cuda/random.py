"""Seeding and saving the devices' default generators."""

from ember._C.cuda import (get_rng_state as get_rng_state, get_rng_state_all as get_rng_state_all,
                           initial_seed as initial_seed, manual_seed as manual_seed,
                           manual_seed_all as manual_seed_all, seed as seed, seed_all as seed_all,
                           set_rng_state as set_rng_state, set_rng_state_all as set_rng_state_all)
