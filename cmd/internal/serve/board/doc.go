// Package board reads and acts for prescient serve: every page and every answer of its API is a
// read of a Board, and every button an action of it.
//
//	b, err := board.New(ctx, board.Config{DB: db, Runner: slots.Config{Registry: registry}})
//	overview, err := b.Overview(ctx, 0)
//
// Many readers cost the database little. Each read is kept for some seconds, concurrent readers
// share it, and all reads together keep a limit of statements a second. So a value may be old, and
// has its age. A read with the number of an action never returns a value from before that action.
//
// An action is previewed first. The Plan says in numbers what it will do. Do does exactly that, or
// nothing if the data has changed. Table action records what was done, and by whom.
package board
