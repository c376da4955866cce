package a

func bad() {}

func _() {
	bad() // want "bad is called"

	bad() //backoffvet:ignore calls it is good here

	//backoffvet:ignore calls it is good here
	bad()

	//backoffvet:ignore calls
	bad() // want "bad is called"

	//backoffvet:ignore others it is good here
	bad() // want "bad is called"

	//backoffvet:ignored calls it is good here
	bad() // want "bad is called"
}
