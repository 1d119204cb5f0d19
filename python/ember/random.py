"""Seeding and saving the default generators."""

from ember._C.random import *
