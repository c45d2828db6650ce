// Package seq has sequences that may end in an error, such as the rows of a list, and a function for lists.
package seq

import "iter"

// Map returns what a function returns for each value of a list, in order. It never returns nil.
func Map[T, U any](list []T, of func(T) U) []U {
	mapped := make([]U, len(list))
	for i, value := range list {
		mapped[i] = of(value)
	}
	return mapped
}

// Collect returns the values of a sequence up to its end or its first error, and that error.
func Collect[T any](all iter.Seq2[T, error]) (values []T, err error) {
	for value, err := range all {
		if err != nil {
			return values, err
		}
		values = append(values, value)
	}
	return values, nil
}

// pageRows bounds the rows that Pages asks for at once.
const pageRows = 1000

// Pages returns the rows of all pages behind a position, at most limit of them; 0: all. Function page
// returns up to a number of rows behind a position, and the position of the next page. The zero
// position stands for the beginning and for the end.
func Pages[T any, P comparable](
	after P, limit int, page func(after P, limit int) (rows []T, next P, err error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var end P
		at, left, most := after, limit, pageRows
		for {
			size := most
			if limit != 0 {
				size = min(size, left)
			}
			rows, next, err := page(at, size)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			if at, left = next, left-len(rows); at == end || left == 0 {
				return
			}
			// The server measures the rows that it is asked for. If few large ones make a page, it is asked for few.
			most = min(2*most, pageRows)
			if len(rows) < size {
				most = max(2*len(rows), 1)
			}
		}
	}
}

// PageBytes bounds the payloads of a page, in bytes: a thousand of the largest payloads are a gigabyte.
const PageBytes = 4 << 20

// Fitting returns how many of the rows are a page: limit, or fewer that have PageBytes.
func Fitting[T any](rows []T, limit int, size func(T) int) (n int) {
	for bytes := 0; n < min(len(rows), limit) && bytes < PageBytes; n++ {
		bytes += size(rows[n])
	}
	return n
}
