"""From records to statistics to tables and figures, without torch."""
