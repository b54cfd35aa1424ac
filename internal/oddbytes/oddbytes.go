// Package oddbytes has what fuzz targets begin with: the JSON and the text that readers
// have stumbled over. It imports the standard library only, and is for tests.
package oddbytes

import "strings"

// Deep returns lists inside of each other.
func Deep(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// JSON returns values that are JSON, or nearly: deep ones, numbers that fit nowhere,
// halves of surrogate pairs, control characters, and names that occur twice. They are
// small, so that a fuzz target has time for others.
func JSON() []string {
	return []string{
		Deep(1_001), strings.Repeat(`{"a":`, 1_001) + "1" + strings.Repeat("}", 1_001),
		"1e400", "-1e400", "-0", "1e30", "99999999999999999999", "12.50", "0.1e-999",
		`"\u0000"`, "\"\x00\"", "\x00", `"\ud800"`, `"\udc00\ud800"`, "\"\u0080\u009b31m\u2028\"", "\"\xff\xfe\xed\xa0\x80\"", "\ufeff{}",
		`{"a":1,"a":{"a":2},"A":3}`, `{"":"","__proto__":{},"type":"user","seq":7,"id":"\u0000"}`,
		`{"raw":"x"}`, `{"agent_name":1e400,"reason":["\ud800"]}`, "{", "[1,", "nul", " { \"a\" : 1 } ", "", " ",
	}
}

// Large returns values that are deeper than Go decodes, or nearly, wide ones, and long
// strings.
func Large() []string {
	return []string{
		Deep(999), Deep(1_000), Deep(9_990), Deep(9_998), Deep(9_999), Deep(10_000), Deep(10_001), strings.Repeat("[", 12_000),
		"[" + strings.Repeat("{},", 20_000) + "{}]", `"` + strings.Repeat("x", 1<<20) + `"`, `"` + strings.Repeat(`\ud800`, 10_000) + `"`,
	}
}
