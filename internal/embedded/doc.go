// Package embedded runs a private PostgreSQL for people who have no database.url:
// the first command works, and the database needs no administrator.
//
// It needs the PostgreSQL programs, version 15 or newer, from the machine's own packages; nothing
// is downloaded. They are looked for in PATH, and then where Debian, Ubuntu, Fedora and Homebrew
// put them.
//
//	server, err := embedded.Open(embedded.Config{})
//	...
//	err = server.Start(ctx) // makes the database at the first time, starts it when it is not running
//	db, err := pgsql.Open(ctx, server.URL())
//
// # Where it lives
//
// Everything is below one directory: the data, the log and, where the path is short enough, the
// socket.
//
//	$XDG_DATA_HOME/prescient/postgres   when XDG_DATA_HOME is set
//	~/.local/share/prescient/postgres   otherwise (macOS: ~/Library/Application Support/prescient/postgres)
//	/var/lib/prescient/postgres         for root, whose home is closed to the user that the server runs as
//
//	    data        the data directory, PostgreSQL's own
//	    socket      the directory of the unix socket, mode 0700
//	    server.log  what the server prints
//	    lock        held while a process starts or stops the server
//
// The paths depend on nothing but the directory, so that a cron job without a login session finds
// the server that a shell has started. The runtime directory of XDG is not used for that reason: it
// is unknown to cron, and it is removed at logout, while the server goes on.
//
// # Who can reach it
//
// The server listens on a unix socket only, in a directory that only its user (and root) may enter.
// Every process that gets there is trusted: there is no password to leak. The directory's owner and mode are
// checked before each connection, as another user can make one of the same name in /tmp; see
// [Server.CheckSocket]. The commands connect as a role that owns the database and is no superuser,
// so that no query of a check reads files or runs programs; the role postgres, for who looks after
// the server, may. PostgreSQL refuses to run as root, so for root it runs as the owner of the data
// directory, which at first is the user postgres or, where there is none, nobody.
//
// # How long it runs
//
// The server is a process of its own session. It outlives the command that started it, until Stop
// or a reboot; the next Start finds it or starts it again. Data is as safe as in any PostgreSQL:
// fsync and data checksums are on.
//
// # What it never does
//
// It never deletes or upgrades data. A data directory of another major version is an error that
// says how to go on.
package embedded
