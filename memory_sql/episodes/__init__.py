"""Episodes: stretches of conversations in which one thing was talked about, and when they end."""
