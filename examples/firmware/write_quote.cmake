# cmake -DCOMMAND=a;list -DOUTPUT=FILE -P write_quote.cmake: the output of a program as a file, if it ended well.
execute_process(COMMAND ${COMMAND} OUTPUT_VARIABLE text ERROR_VARIABLE said RESULT_VARIABLE status TIMEOUT 120)
if(NOT status EQUAL 0 OR NOT text MATCHES "FIRMWARE_SESSION_BYTES [0-9]+")
  message(FATAL_ERROR "the measuring run ended with ${status}: ${text}${said}")
endif()
file(WRITE ${OUTPUT} "${text}")
