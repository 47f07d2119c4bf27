"""The harness: studies, plan, store, execution, search, measurement and the command line."""
