// Package board is what prescient serve shows and does: every page and every answer of its API is a read of a Board, and
// every button an action of it.
//
//	b, err := board.New(ctx, board.Config{DB: db, Runner: slots.Config{Registry: registry}})
//	overview, err := b.Overview(ctx, 0)
//
// However many look, the database is asked little: each read is kept for some seconds, whoever comes meanwhile gets the same,
// and all of them together have a budget of statements. A value may therefore be old, and says how old it is. Who has just
// done something gives a read the number of his action, and is shown nothing from before it.
//
// An action is previewed first: the Plan says in numbers what it will do, and Do does that or, where things are different by
// now, nothing. What was done, by whom, is in the table action.
package board
