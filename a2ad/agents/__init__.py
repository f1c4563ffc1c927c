"""The agents that come with the daemon."""
