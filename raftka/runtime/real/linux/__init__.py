"""The runtime on what only Linux has: epoll, eventfd, io_submit, sendfile, memfd, syncfs."""
