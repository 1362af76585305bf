// Package opaque turns IDs into opaque IDs and back. An opaque ID does not show
// how many IDs there are, which came first, or when it was made.
//
//	keys, err := opaque.ParseKeys(file) // as idworker opaque keygen writes it
//	orders, err := keys.Text("order", "ord")
//	text, err := orders.Seal(1)     // "ord_164g7p0fvrzk7g6"
//	id, err := orders.Open(text)    // 1
//
// All of it happens in the caller: workers have no keys, and the protocol does
// not change. It is pure, so any number of goroutines may share a codec.
//
// Text is the form to recommend. It has a prefix, the generation of its key and
// a check digit:
//
//	ord_  1  64g7p0fvrzk7g  6
//	prefix, generation, the sealed number, check digit
//
// Keys of texts can be replaced: the last generation in the key file seals, and
// each text can be opened as long as its generation is in the file. A number
// has no room for a generation, so its key is for ever.
//
// A codec belongs to a tag, or to any other name of that form: a table's, for
// snowflake IDs. Two codecs with other keys, tags, forms or widths can make the
// same opaque ID of two IDs. So services that share opaque IDs need the same
// keys; they should log [Keys.Fingerprint].
//
// Opaque IDs are no authorization. Every number within the width opens to some
// ID, and so does each 32nd text with another tag's, another key's or a random
// check digit. With N live IDs, a guessed number hits one of them with a chance
// of N in 2^63 or 2^53, and a guessed text with N in 2^68. Check rights as if
// the caller had given the ID.
//
// # The contract
//
// Other languages need the same results; messages/testdata/vectors.json has
// examples. The cipher is FF1 of NIST SP 800-38G with AES-256, radix 2, an
// empty tweak, and the number's bits from the most significant. 0 is no ID:
// where sealing or opening yields it, it is sealed or opened once more.
//
// The key of a codec is HKDF-SHA256 of a master key, without salt, and the info
// "idworker opaque v1 FORM BITS TAG", with the form number, text or check. The
// sealed number of a text is in 13 digits of 0123456789abcdefghjkmnpqrstvwxyz.
// Its check digit is the first 8 bytes, big-endian, mod 32, of HMAC-SHA256
// under the key of form check over everything before.
//
// keys.go has the key file, codec.go the forms and errors, ff1.go the cipher.
package opaque
