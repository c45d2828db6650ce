// Package rule is for applications that bring rules with them: "do this, when that has not happened for
// X", on the tables that are there, without code. [Parse] reads a file of rules, [Apply] lets the rows of
// its tables wait, and [Register] lets runs check them.
//
// The commands `prescient rules` do the same, plan a change of rules, and test them on the past.
package rule
