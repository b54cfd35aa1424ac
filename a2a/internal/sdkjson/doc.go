// Package sdkjson converts JSON of clients and peers to JSON that the types of the A2A SDK decode. [Shape.Fit] is for
// requests, and refuses wrong values with their places. [Shape.Mend] is for answers, and omits them.
package sdkjson
