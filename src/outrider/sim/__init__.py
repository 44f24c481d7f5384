"""Plans past this machine: the gateway's own routing, driven by a trace over simulated replicas."""
