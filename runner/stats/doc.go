// Package stats holds the formulas behind what the summary says: intervals of rates, of their differences and of
// medians. Pure functions of numbers; no cells, no files, no text. Anybody may enter.
//
// A figure that does not exist, such as the mean of nothing, is NaN or comes with ok = false; whoever shows it says
// "n/a".
package stats
