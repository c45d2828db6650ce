// Package spool runs checks from files, without a database: a directory has a folder for each slot,
// and each folder has executables. It is for one machine, and for what must run when the database
// does not.
//
//	DIR/2603011315/order-42                     waits for the slot of 2026-03-01T13:15:00Z
//	DIR/2603011330/order-42,checks=1,errors=0   a run has moved it: its checks so far, and its errors in a row
//	DIR/done/2603011330/order-42                is finished
//	DIR/failed/2603011330/order-42              was given up
//	DIR/output/2603011330/order-42              what its check in that slot wrote, and what became of it
//
// [Spool.Add] puts a file into a folder. [Spool.Run] runs the files of the current slot, one after
// another in the order of their names, and catches up on earlier slots. [Spool.Files] tells what
// was missed and what cannot run. Everything else is for ls, mv and rm. docs/spool.md says what an
// executable can ask for.
//
// A file is in exactly one place, and one rename records its outcome. If a run is killed before the
// rename, the file stays in its slot and catch-up checks it again: at least once.
//
// One lock, flock(2) on DIR/.lock, allows one run at a time. The running check inherits the lock as
// descriptor 100. If its run is killed, no other run starts anything until that check has ended.
//
// A run trusts a file only if its user or root owns it and no other user can write to it. The same
// goes for DIR and for the slot's folder.
package spool
