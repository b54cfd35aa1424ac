package eval

import (
	"math"
	"slices"
	"time"
)

// Interval is a share with the bounds of its 95 % confidence interval.
type Interval struct {
	Right int     `json:"right"`
	Of    int     `json:"of"`
	Share float64 `json:"share"` // from 0 to 1
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Wilson returns the Wilson score interval of a share. For a share of nothing the bounds are 0 and 1, and the share is
// 0.
//
// It assumes that all results are independent. The repetitions of one case are not: a model repeats many of its errors,
// so the bounds of few cases with many repetitions are too narrow.
func Wilson(right, of int) Interval {
	if of <= 0 {
		return Interval{High: 1}
	}
	const z = 1.959963984540054 // the 97.5 % quantile of the normal distribution
	n := float64(of)
	p := float64(right) / n
	whole := 1 + z*z/n
	middle := (p + z*z/(2*n)) / whole
	width := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n)) / whole
	i := Interval{Right: right, Of: of, Share: p, Low: max(0, middle-width), High: min(1, middle+width)}
	if right == 0 { // against rounding errors
		i.Low = 0
	}
	if right == of {
		i.High = 1
	}
	return i
}

// percentile returns the smallest of several times that this percentage of them does not exceed, 0 without times.
func percentile(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
