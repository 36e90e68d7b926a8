"""Every compiled loop, by stage."""
