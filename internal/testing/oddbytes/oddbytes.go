// Package oddbytes contains the seeds of fuzz targets: JSON and texts that have caused errors in readers. It is for
// tests.
package oddbytes

import "strings"

// Deep returns nested lists.
func Deep(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// JSON returns valid and almost valid JSON: deeply nested values, numbers that fit no type, halves of surrogate pairs,
// control characters, and repeated keys. The values are small, so that a fuzz target has time for others.
func JSON() []string {
	return []string{
		Deep(1_001), strings.Repeat(`{"a":`, 1_001) + "1" + strings.Repeat("}", 1_001),
		"1e400", "-1e400", "-0", "1e30", "99999999999999999999", "12.50", "0.1e-999",
		`"\u0000"`, "\"\x00\"", "\x00", `"\ud800"`, `"\udc00\ud800"`, "\"\u0080\u009b31m\u2028\"", "\"\xff\xfe\xed\xa0\x80\"", "\ufeff{}",
		`{"a":1,"a":{"a":2},"A":3}`, `{"":"","__proto__":{},"type":"user","seq":7,"id":"\u0000"}`,
		`{"raw":"x"}`, `{"agent_name":1e400,"reason":["\ud800"]}`, "{", "[1,", "nul", " { \"a\" : 1 } ", "", " ",
	}
}

// Large returns values that are nested more deeply than Go decodes, or almost, wide ones, and long strings.
func Large() []string {
	return []string{
		Deep(999), Deep(1_000), Deep(9_990), Deep(9_998), Deep(9_999), Deep(10_000), Deep(10_001), strings.Repeat("[", 12_000),
		"[" + strings.Repeat("{},", 20_000) + "{}]", `"` + strings.Repeat("x", 1<<17) + `"`, `"` + strings.Repeat(`\ud800`, 10_000) + `"`,
	}
}
