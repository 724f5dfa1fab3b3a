"""Control of nodes by the program that started them: kill, pause, start, faults."""
