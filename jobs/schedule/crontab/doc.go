// Package crontab reads crontabs: compact forms of an ordered set of instants. It is pure, without
// a clock and without a database.
//
//	c, err := crontab.Parse("30 2 * * mon-fri", "Europe/Berlin", time.Time{})
//	at, ok := c.Next(after)            // the first instant after another
//	for at := range c.Between(from, to) {
//		publish(at)                // what is due at a slot: after the slot before, up to this one
//	}
//	missed := c.Latest(10, from, to)   // the newest of them, however long the outage was
//
// # Forms
//
//	minute hour day-of-month month day-of-week    five fields, below
//	@yearly @annually                             0 0 1 1 *
//	@monthly                                      0 0 1 * *
//	@weekly                                       0 0 * * 0
//	@daily @midnight                              0 0 * * *
//	@hourly                                       0 * * * *
//	@every 90m                                    the anchor, and every 90 minutes after it; also 1d12h and 2w
//	@at 1647067401                                once, at these Unix seconds
//	CRON_TZ=Europe/Berlin ...                     any of the above in a time zone; TZ= says the same
//
// A field is a list (1,15), whose items are a value (5), a range (1-5), everything (*), or a range
// or everything in steps (*/15, 8-18/2; 5/15 is 5-59/15, and 1/2 in the day of the week is 1-6/2:
// Sunday is 0 there). Days and weeks of @every are 24 hours and 168, whatever the clocks do.
//
//	minute          0-59
//	hour            0-23
//	day of month    1-31
//	month           1-12, or jan to dec
//	day of week     0-7, or sun to sat; 0 and 7 are Sunday
//
// Two fields take days that depend on the month, as items of a list without ranges and steps:
//
//	day of month    L, the last day; L-3, three days before it; LW, the last weekday, Monday to Friday;
//	                15W, the weekday nearest to the 15th in the same month
//	day of week     friL or 5L, the last Friday of the month; fri#2, the second one
//
// A month that has no 31st or no fifth Friday has no 31W and no fri#5.
//
// A day must match the day of the month and the day of the week. Where both are restricted, which
// is to say that neither contains a *, one of them is enough: "0 0 1,15 * fri" is the 1st, the 15th
// and every Friday.
//
// # Changes of summer time
//
// An expression with a * or a / in its minute or hour follows elapsed time: it fires whenever the
// clocks of its zone show a time that matches. So "*/30 * * * *" fires every 30 minutes through
// both changes, "*/30 2 * * *" fires twice as often on a night that has two hours 2, and not at all
// on one that has none.
//
// Every other expression names fixed times, with lists and ranges too: 0-59 is sixty of them. It
// fires when the clocks of its zone first show such a time or, where they skip it, a later one. So
// a time that does not exist fires once, right after the gap, together with all others of that gap;
// and one that exists twice fires once, the first time. A gap may swallow midnight, or a day: Samoa
// had no 30 December 2011, and what was due on it fired at its end.
//
// # Parts of a crontab
//
// [Crontab.Within] leaves the instants between two, [Crontab.Except] those outside of holidays,
// days of the week, nights.
//
// # Where the rules come from
//
//   - The five fields and the "one day is enough" are those of crontab in POSIX; names, steps, 7 for Sunday, @daily and
//     kin, and * as the mark of an unrestricted day, */2 too, of crontab(5) by Paul Vixie; CRON_TZ of cronie.
//   - N/step, TZ= and @every are those of robfig/cron, and so of Kubernetes. @at is our own.
//   - L, W and # are those of Quartz, but with the days of the week of crontab(5): 5L is Friday here, and Thursday
//     there.
//   - Summer time is that of cron(8) by Paul Vixie, for gaps of any length instead of up to 3 hours; counting 8-18/2
//     among the wildcards is our own.
//   - Refused, though some crons take them: a range that goes backwards (22-2), and a step longer than its range
//     (*/90), which is one value there and rarely meant; ?; seconds and years. docs/crontab.md has a table.
//   - No library parses: what they return does not tell */15 from 0,15,30,45, on which the rule of summer time depends,
//     nor do their errors say which field is wrong. A test compares with netresearch/go-cron where both mean the same.
//
// Instants lie between 1970 and 9999, as do those of slots. The rules of time zones come from the
// system, or from the copy in the binary where the system has none: a schedule that one machine
// accepts must not be an error on another.
package crontab
