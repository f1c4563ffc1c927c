"""The executors that come with the daemon."""
