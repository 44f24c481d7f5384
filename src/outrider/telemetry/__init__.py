"""What happened lately, and how fast it was: from engines' metrics pages and the gateway's records."""
