-- Creates the next partitions of history. See the function make_history_months.
-- Called by slots.Runner.makeHistoryMonths.
select prescient.make_history_months()
