"""What ember.ops consists of."""

from ember._C._ops import *
