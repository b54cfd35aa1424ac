package eval

import (
	"math"
	"slices"
	"time"
)

// Interval is a share with the bounds between which it lies with a confidence of 95 %.
type Interval struct {
	Right int     `json:"right"`
	Of    int     `json:"of"`
	Share float64 `json:"share"` // from 0 to 1
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Wilson returns the score interval after Wilson of a share. Of nothing it is all there is,
// from 0 to 1, and the share is 0.
//
// It takes each to be independent of the others. The repetitions of one case are not: much of
// what a model does wrong it does wrong again, so that the bounds of a share of few
// cases with many repetitions are too narrow.
func Wilson(right, of int) Interval {
	if of <= 0 {
		return Interval{High: 1}
	}
	const z = 1.959963984540054 // 97.5 % of the normal distribution are below it
	n := float64(of)
	p := float64(right) / n
	whole := 1 + z*z/n
	middle := (p + z*z/(2*n)) / whole
	width := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n)) / whole
	i := Interval{Right: right, Of: of, Share: p, Low: max(0, middle-width), High: min(1, middle+width)}
	if right == 0 { // rounding
		i.Low = 0
	}
	if right == of {
		i.High = 1
	}
	return i
}

// percentile returns the least of some times that so many percent of them do not exceed, 0
// of none.
func percentile(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
