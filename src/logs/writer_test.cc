int unused_writer=0;
