// Package summary is what can be concluded from the results of a run: one value, from which the terminal, JSON, CSV,
// the report and the thresholds take their numbers. Pure: results in, numbers out.
//
// Only measured cells are in a rate or a time; what could not be measured is in the coverage, with its cause. Trials,
// variants, adapters, their versions and credential profiles are never pooled. Warmup cells count in nothing. Of each
// cell the last attempt counts, even where an earlier one was quicker.
package summary
