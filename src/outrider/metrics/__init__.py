"""Every number Outrider publishes: its name, its unit, and how one request is remembered."""
