package spoken

import (
	"cmp"
	"slices"
	"strings"
)

// mostMeant bounds the names that Nearest returns: a long list helps as little as none.
const mostMeant = 3

// Nearest returns the names that a mistyped one may have been meant for, all equally similar. Capitals do not count.
func Nearest(typed string, names []string) []string {
	type candidate struct {
		name  string
		steps int
	}
	var list []candidate
	if typed = strings.ToLower(typed); typed == "" { // which begins every name
		return nil
	}
	for _, name := range names {
		steps := distance(typed, strings.ToLower(name))
		begins := strings.HasPrefix(strings.ToLower(name), typed)
		if begins {
			steps = min(steps, 1)
		}
		if begins || steps <= 2 && 2*steps <= len(typed) {
			list = append(list, candidate{name, steps})
		}
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(a.steps-b.steps, strings.Compare(a.name, b.name))
	})
	list = slices.Compact(list)
	var near []string
	for _, c := range list[:min(len(list), mostMeant)] {
		if c.steps == list[0].steps {
			near = append(near, c.name)
		}
	}
	return near
}

// distance returns how many characters must be added, left out, replaced or swapped with the next one so that one text
// becomes the other. It returns 3 for texts that are farther apart.
func distance(a, b string) int {
	const far = 3
	x, y := []rune(a), []rune(b)
	if len(x)-len(y) >= far || len(y)-len(x) >= far {
		return far
	}
	var before []int // the row before the last one
	last := make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := range x {
		row := make([]int, len(y)+1)
		row[0] = i + 1
		for j := range y {
			replaced := last[j]
			if x[i] != y[j] {
				replaced++
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, replaced)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return min(last[len(y)], far)
}

// DidYouMean asks whether one of these names was meant.
func DidYouMean(near []string) string { return ": did you mean " + OrList(near) + "?" }

// Meant asks whether a mistyped name was meant to be one of names. It is empty if none is similar.
func Meant(typed string, names []string) string {
	if near := Nearest(typed, names); len(near) > 0 {
		return DidYouMean(near)
	}
	return ""
}

// OrList joins words by commas, and "or" before the last one.
func OrList[T ~string](words []T) string {
	var b strings.Builder
	for i, word := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(word))
	}
	return b.String()
}
