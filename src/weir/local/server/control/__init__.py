"""Work of the server beside the control loop: hooks, arrays, reports of jobs and readiness."""
