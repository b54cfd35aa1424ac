// Package linediff shows the differences of two texts line by line.
package linediff

import "strings"

// around is the number of equal lines shown before and after a difference.
const around = 2

// most is the maximal number of compared lines; longer texts are cut.
const most = 2000

// Of returns the differences of two texts, and the number of differing lines. A line with "-" is only in a, a line with
// "+" only in b, and "…" replaces equal lines.
func Of(a, b []string) (text string, n int) {
	a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	// common[i][j] is the length of the longest common subsequence of x[i:] and y[j:].
	common := make([][]int32, len(x)+1)
	for i := range common {
		common[i] = make([]int32, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var lines []string
	for _, line := range a[max(0, head-around):head] {
		lines = append(lines, "  "+line)
	}
	same := 0 // the number of equal lines since the last difference
	for i, j := 0, 0; i < len(x) || j < len(y); {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			if same++; same <= around {
				lines = append(lines, "  "+x[i])
			} else if same == around+1 {
				lines = append(lines, "  …")
			}
			i++
			j++
			continue
		case i < len(x) && (j == len(y) || common[i+1][j] >= common[i][j+1]):
			lines = append(lines, "- "+x[i])
			i++
		default:
			lines = append(lines, "+ "+y[j])
			j++
		}
		n++
		same = 0
	}
	for _, line := range a[len(a)-tail : min(len(a), len(a)-tail+around)] {
		lines = append(lines, "  "+line)
	}
	return strings.Join(lines, "\n"), n
}
