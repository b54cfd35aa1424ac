// Package sdkgaps tests gaps of the A2A SDK for Go that keep code of this repository alive. Each
// test passes while the SDK has the gap. When a release of the SDK mends it, the test fails and
// names the code that may go. It has no code of its own.
package sdkgaps
