"""``python -m ember top``."""

from ember.top import main

if __name__ == "__main__":
    main()
