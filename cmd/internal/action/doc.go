// Package action has what operators do: one type for each action, such as Cancel or Retry, with its
// question, its preview, its effect and its report. Preview says what an action would do; Do and Run do it.
//
// A command, the pages and the API take the same types, so they say the same sentences. A Form is how
// people and programs give the fields of an action; a command has flags. Package board records what
// pages and the API do; package perform is the way of a command.
package action
