"""A game attached to classifiers that are not ours, against the libraries that explain any classifier."""
