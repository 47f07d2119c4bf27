"""Study pages: reading, schema, validation and expansion into run specs. No torch."""
