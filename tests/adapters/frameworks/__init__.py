"""The contract with each framework's own agent loop. Run in the environments of scripts/adapter_environments.sh."""
