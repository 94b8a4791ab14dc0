"""`python -m neurogame`."""

from neurogame.cli import main

main()
