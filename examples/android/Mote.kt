// mote for Kotlin, on Android and on any JVM: three classes over the calls of core/mote.h, which describes them.
//
// Nothing here is freed by the garbage collector: close what you open, in the order session, model, engine (`use` does).
// A call after close is an IllegalStateException; what mote refuses is a MoteException with its sentence.
package mote

import java.util.concurrent.locks.ReentrantReadWriteLock
import kotlin.concurrent.read
import kotlin.concurrent.write

/** What mote refused: [status] is a `mote_status`, the message one sentence that names the thing, the place and the limit. */
class MoteException(val status: Int, message: String) : RuntimeException(message) {
    companion object {
        const val INVALID_ARGUMENT = 1
        const val IO = 2
        const val BAD_MODEL = 3
        const val UNSUPPORTED = 4
        const val OUT_OF_MEMORY = 5
        const val CONTEXT_FULL = 7
        const val CANCELLED = 8
        const val WRONG_STATE = 9
    }
}

/** Bytes that a model and one session with it will take, exactly, before anything is opened. */
data class Quote(val modelBytes: Long, val sessionBytes: Long)

/** Threads and backends; one per process is enough. [threads] 0: what affinity, quota and fast cores give. */
class Engine(threads: Int = 0, backends: String? = null) : AutoCloseable {
    private val lock = ReentrantReadWriteLock()
    private var handle = Native.openEngine(threads, backends?.zeroTerminated())

    fun quote(path: String, context: Int = 0): Quote = withHandle {
        val bytes = Native.quote(it, path.zeroTerminated(), context)
        Quote(bytes[0], bytes[1])
    }

    internal fun <T> withHandle(call: (Long) -> T): T = lock.read {
        check(handle != 0L) { "the engine is closed" }
        call(handle)
    }

    /** A MoteException (WRONG_STATE) while a model is open. */
    override fun close() = lock.write {
        Native.closeEngine(handle)
        handle = 0
    }

    companion object {
        /** The version of the native library, "0.1.0". */
        val version: String get() = Native.version()
    }
}

/** A GGUF file, opened. Immutable: any number of threads and sessions may use it. */
class Model private constructor(engine: Engine, open: (Long) -> Long) : AutoCloseable {
    private val lock = ReentrantReadWriteLock()
    private var handle = engine.withHandle(open)

    /** [copy]: read into memory instead of mapped, safe from later changes of the file. */
    constructor(engine: Engine, path: String, copy: Boolean = false) :
        this(engine, { Native.openModelPath(it, path.zeroTerminated(), copy) })

    /** A range of an open file, such as an asset stored without compression. [length] 0: to its end. The descriptor
     *  stays the caller's and may be closed afterwards. */
    constructor(engine: Engine, descriptor: Int, offset: Long, length: Long, copy: Boolean = false) :
        this(engine, { Native.openModelDescriptor(it, descriptor, offset, length, copy) })

    /** [addSpecial] adds the start token where the model wants one; [parseSpecial] recognises control tokens in the
     *  text, which is for texts that are your own. */
    fun tokenize(text: String, addSpecial: Boolean = false, parseSpecial: Boolean = false): IntArray = withHandle {
        Native.tokenize(it, text.encodeToByteArray(), (if (addSpecial) 1 else 0) or (if (parseSpecial) 2 else 0))
    }

    /** The exact bytes; they need not be whole characters. */
    fun detokenize(tokens: IntArray): ByteArray = withHandle { Native.detokenize(it, tokens) }

    /** The prompt of a conversation, (role, content) each, in the model's own chat format, up to where the answer begins. */
    fun chatTokens(vararg messages: Pair<String, String>): IntArray {
        val roles = Joined(messages.map { it.first.zeroTerminated() })
        val contents = Joined(messages.map { it.second.encodeToByteArray() })
        return withHandle { Native.chatTokens(it, roles.bytes, roles.ends, contents.bytes, contents.ends) }
    }

    internal fun <T> withHandle(call: (Long) -> T): T = lock.read {
        check(handle != 0L) { "the model is closed" }
        call(handle)
    }

    /** A MoteException (WRONG_STATE) while a session is open. */
    override fun close() = lock.write {
        Native.closeModel(handle)
        handle = 0
    }
}

/** One conversation. Calls from several threads wait for each other; [cancel] does not wait.
 *  [temperature] 0 is greedy, and then the three that follow do not matter. */
class Session(
    model: Model,
    context: Int = 0,
    seed: Long = 0,
    temperature: Float = 0f,
    topK: Int = 40,
    topP: Float = 0.95f,
    minP: Float = 0.05f,
) : AutoCloseable {
    private val closing = Any() // cancel and close must not meet
    private var handle = model.withHandle { Native.openSession(it, context, seed, temperature, topK, topP, minP) }

    /** Appends tokens; all but the last are run. */
    fun feed(tokens: IntArray) = withHandle { Native.feed(it, tokens) }

    /** Makes the history exactly these tokens, and returns how many of them did not have to be run again. */
    fun prompt(tokens: IntArray): Int = withHandle { Native.prompt(it, tokens) }

    /** Samples a token and appends it. */
    fun next(): Int = withHandle { Native.next(it) }

    /** The logits after the last token. */
    fun logits(): FloatArray = withHandle { Native.logits(it) }

    /** Forgets all but the first [tokens] tokens. */
    fun rewind(tokens: Int) = withHandle { Native.rewind(it, tokens) }

    /** The answer, piece by piece as it comes, in whole characters; ends at an end token or when the context is full. */
    fun answer(): Sequence<String> = sequence {
        val facts = IntArray(2) // the token, and why the text ended
        while (facts[1] == 0) {
            val text = withHandle { Native.textNext(it, facts) }
            if (text.isNotEmpty()) yield(text.decodeToString())
        }
    }

    /** From any thread: the call that runs, or the next one, ends within one layer as a MoteException (CANCELLED). */
    fun cancel() = synchronized(closing) { if (handle != 0L) Native.cancel(handle) }

    @Synchronized
    private fun <T> withHandle(call: (Long) -> T): T {
        check(handle != 0L) { "the session is closed" }
        return call(handle)
    }

    /** Waits for a call that runs; [cancel] it first. */
    @Synchronized
    override fun close() = synchronized(closing) {
        Native.closeSession(handle)
        handle = 0
    }
}

private fun String.zeroTerminated(): ByteArray {
    require('\u0000' !in this) { "this text may not contain a zero character" }
    return encodeToByteArray() + 0
}

private class Joined(parts: List<ByteArray>) {
    val bytes = ByteArray(parts.sumOf { it.size })
    val ends = IntArray(parts.size)

    init {
        var end = 0
        parts.forEachIndexed { i, part ->
            part.copyInto(bytes, end)
            end += part.size
            ends[i] = end
        }
    }
}

/** platform/android/jni/mote_jni.cpp looks for this name and these functions. */
internal object Native {
    init {
        System.loadLibrary("mote_jni")
    }

    @JvmStatic external fun version(): String
    @JvmStatic external fun openEngine(threads: Int, backends: ByteArray?): Long
    @JvmStatic external fun closeEngine(engine: Long)
    @JvmStatic external fun quote(engine: Long, path: ByteArray, context: Int): LongArray
    @JvmStatic external fun openModelPath(engine: Long, path: ByteArray, copy: Boolean): Long
    @JvmStatic external fun openModelDescriptor(engine: Long, descriptor: Int, offset: Long, length: Long, copy: Boolean): Long
    @JvmStatic external fun closeModel(model: Long)
    @JvmStatic external fun tokenize(model: Long, text: ByteArray, flags: Int): IntArray
    @JvmStatic external fun detokenize(model: Long, tokens: IntArray): ByteArray
    @JvmStatic external fun chatTokens(
        model: Long, roles: ByteArray, roleEnds: IntArray, contents: ByteArray, contentEnds: IntArray,
    ): IntArray
    @JvmStatic external fun openSession(
        model: Long, context: Int, seed: Long, temperature: Float, topK: Int, topP: Float, minP: Float,
    ): Long
    @JvmStatic external fun closeSession(session: Long)
    @JvmStatic external fun feed(session: Long, tokens: IntArray)
    @JvmStatic external fun prompt(session: Long, tokens: IntArray): Int
    @JvmStatic external fun rewind(session: Long, tokens: Int)
    @JvmStatic external fun next(session: Long): Int
    @JvmStatic external fun logits(session: Long): FloatArray
    @JvmStatic external fun textNext(session: Long, facts: IntArray): ByteArray
    @JvmStatic external fun cancel(session: Long)
}
