"""The dashboard without a server: built page, live frames, sessions, and checks against other sites."""
