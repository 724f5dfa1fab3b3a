"""Linux: epoll, threads, processes, io_submit. The one package that touches the outside."""
