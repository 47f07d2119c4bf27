"""The named studies, one YAML page each; this module only finds them."""
