package opaque_test

import (
	"fmt"
	"log"

	"github.com/idworker/idworker/messages/opaque"
)

func Example() {
	// From a file with mode 0600, which idworker opaque keygen wrote.
	file := []byte("number AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n")
	keys, err := opaque.ParseKeys(file)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("keys", keys.Fingerprint())
	orders, err := keys.Text("order", "ord")
	if err != nil {
		log.Fatal(err)
	}
	text, err := orders.Seal(1)
	if err != nil {
		log.Fatal(err)
	}
	id, err := orders.Open(text)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text, id)
	_, err = orders.Open("ord_164g7p0fvrzk7g7")
	fmt.Println(err)
	// Output:
	// keys number:af27d53ede339836 1:af27d53ede339836
	// ord_164g7p0fvrzk7g6 1
	// wrong check digit: the text is of another tag or key, or mistyped
}
