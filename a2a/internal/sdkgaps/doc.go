// Package sdkgaps tests gaps of the A2A SDK for Go that this repository works around. Each test passes while the SDK
// has the gap. When a release of the SDK closes the gap, the test fails and names the code to delete. The package has
// no code of its own.
package sdkgaps
