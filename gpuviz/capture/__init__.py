"""How a trace comes to be: sessions, backends, and what turns records into tables."""
