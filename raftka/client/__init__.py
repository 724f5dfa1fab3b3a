"""The one Kafka client of raftka: command line, cluster start, pipeline, followers, probes and
simulated clients all use it.

`connection.py` is the protocol of one connection, sans-IO: versions, frames, order of answers.
`open_connection` there is the only place that opens one, so TLS and SASL are built once. Two kinds
of networks drive it:

- inside a node, and in the simulation, the runtime's network, with callbacks: followers, probes,
  simulated clients;
- everywhere else a blocking socket, `blocking/`: `Connection` drives one, `Client` knows brokers,
  leaders, coordinators and the controller and
  asks again until a deadline; `Reader`, `Producer` and `Member` of a group stand on it. It needs no
  Trio and no thread, so it runs in the Python workers of Spark as well.

A node imports `connection.py` alone: nothing in a node may block.
"""
