package tested

func _() { bad() } // want "bad is called"
