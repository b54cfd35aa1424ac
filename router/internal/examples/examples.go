// Package examples classifies texts by examples of each label.
package examples

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/bm25"
)

// Classes is a nearest-centroid classifier. Its features are words, pairs of words and parts of words, weighted by how
// rare they are. It is immutable.
type Classes struct {
	labels   []string
	features map[uint64]int32
	rare     []float32 // by feature: its weight in a text
	weights  []float32 // by feature and label
}

// Labels returns the labels, sorted.
func (c *Classes) Labels() []string { return c.labels }

// Learn returns a classifier. Equal examples give equal classifiers.
func Learn(examples map[string][]string) (*Classes, error) {
	if len(examples) < 2 {
		return nil, errors.New("a classifier needs examples of two labels or more; one of them can be for everything else")
	}
	c := &Classes{labels: slices.Sorted(maps.Keys(examples)), features: make(map[uint64]int32)}
	var texts [][]int32 // the features of each example
	var of []int        // its label
	for i, label := range c.labels {
		if strings.TrimSpace(label) == "" {
			return nil, errors.New("a label of the examples is empty")
		}
		if len(examples[label]) == 0 {
			return nil, fmt.Errorf("the label %q has no examples", label)
		}
		for _, text := range examples[label] {
			texts, of = append(texts, c.learn(text)), append(of, i)
		}
	}
	n := len(c.labels)
	c.rare, c.weights = make([]float32, len(c.features)), make([]float32, n*len(c.features))
	for _, features := range texts {
		for _, f := range features {
			c.rare[f]++
		}
	}
	for f, df := range c.rare {
		c.rare[f] = float32(math.Log(1 + float64(len(texts))/float64(df)))
	}
	for i, features := range texts {
		length := c.length(features)
		for _, f := range features {
			c.weights[int(f)*n+of[i]] += c.rare[f] / length
		}
	}
	for l := range n { // the average has length 1
		sum := 0.0
		for f := range c.rare {
			sum += float64(c.weights[f*n+l]) * float64(c.weights[f*n+l])
		}
		for f := range c.rare {
			c.weights[f*n+l] /= float32(math.Sqrt(max(sum, 1e-12)))
		}
	}
	return c, nil
}

// learn returns the features of an example. New features get numbers.
func (c *Classes) learn(text string) (features []int32) {
	featuresOf(text, func(h uint64) {
		f, ok := c.features[h]
		if !ok {
			f = int32(len(c.features))
			c.features[h] = f
		}
		features = append(features, f)
	})
	slices.Sort(features)
	return slices.Compact(features)
}

func (c *Classes) length(features []int32) float32 {
	sum := 0.0
	for _, f := range features {
		sum += float64(c.rare[f]) * float64(c.rare[f])
	}
	return float32(math.Sqrt(max(sum, 1e-12)))
}

// Chosen with the half of the test set that is for tuning.
const (
	sharpness = 18.0 // of the difference between labels
	likeness  = 0.18 // the likeness of a typical example to its label
)

// Classify returns the confidence in each label, from 0 to 1. It is higher if the label fits better than the others,
// and lower if little of the text is like any example. All are 0 for a text without a feature of the examples.
func (c *Classes) Classify(text string) []float64 {
	var known []int32
	featuresOf(text, func(h uint64) {
		if f, ok := c.features[h]; ok {
			known = append(known, f)
		}
	})
	n := len(c.labels)
	fits := make([]float64, n)
	if len(known) == 0 {
		return fits
	}
	slices.Sort(known)
	known = slices.Compact(known)
	length := c.length(known)
	for _, f := range known {
		x := float64(c.rare[f] / length)
		for l, w := range c.weights[int(f)*n : int(f)*n+n] {
			fits[l] += x * float64(w)
		}
	}
	best, sum := slices.Max(fits), 0.0
	for l, fit := range fits {
		fits[l] = math.Exp(sharpness * (fit - best))
		sum += fits[l]
	}
	for l := range fits {
		fits[l] *= min(1, best/likeness) / sum
	}
	return fits
}

// featuresOf calls give with the hashes of a text's features.
func featuresOf(text string, give func(uint64)) {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	hash := func(h uint64, s string) uint64 {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
		return h
	}
	before := uint64(0)
	for _, w := range bm25.Split(text) {
		if w.Stem == "" {
			w.Stem = "~" + w.Text // it says little alone
		}
		word := hash(offset, w.Stem)
		give(word)
		give(hash(before*prime^1, w.Stem))
		before = word
		padded := []rune("^" + w.Text + "$")
		for size := 3; size <= 4; size++ {
			for i := 0; i+size <= len(padded); i++ {
				give(hash(offset^uint64(size), string(padded[i:i+size])))
			}
		}
	}
}
