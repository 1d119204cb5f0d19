"""Settings of the libraries that compute."""

import ember.backends.cuda
from ember.backends import cuda as cuda
